"""Secrets that look real and are none: drawn from a fixed seed when a test runs, and put
together from parts, so that no file of this repository holds anything that a scanner would ring
for."""

from __future__ import annotations

import base64
import json
import random
import string

LETTERS, DIGITS = string.ascii_letters, string.digits
WORD, UPPER, LOWER, HEX = (
    LETTERS + DIGITS,
    string.ascii_uppercase + DIGITS,
    string.ascii_lowercase + DIGITS,
    "0123456789abcdef",
)
URLSAFE, BASE64 = WORD + "_-", WORD + "+/"


def drawn(kind: str, signs: str, size: int) -> str:
    """Signs by chance, the same for a kind in every run. The last is a digit, as real ones
    nearly always have some."""
    chance = random.Random(f"{kind} {size}")
    first = "abcdef" if signs in (HEX, LOWER) else "ABCDEF"
    inner = "".join(chance.choice(signs) for _ in range(size - 2))
    return f"{chance.choice(first)}{inner}{chance.choice('234567')}"


def _uuid(kind: str) -> str:
    return "-".join(drawn(f"{kind}{n}", HEX, size) for n, size in enumerate((8, 4, 4, 4, 12)))


def _jwt() -> str:
    parts = ({"alg": "HS256"}, {"sub": "1234", "name": "Jo"})
    encoded = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts
    ]
    return ".".join((*encoded, drawn("jwt", URLSAFE, 43)))


# kind as `refold.shapes` calls it: the parts of an example
PREFIXED: dict[str, list[tuple[str, ...]]] = {
    "AWS key": [("AK", "IA", drawn("aws", UPPER, 16)), ("AS", "IA", drawn("sts", UPPER, 16))],
    "Google API key": [("AI", "za", drawn("google", URLSAFE, 35))],
    "Google OAuth secret": [("GOC", "SPX-", drawn("gocspx", URLSAFE, 28))],
    "Google OAuth token": [("ya", "29.", drawn("ya29", URLSAFE, 120))],
    "Google refresh token": [("1/", "/0", drawn("refresh", URLSAFE, 60))],
    "Azure client secret": [(drawn("az", WORD, 3), "8", "Q~", drawn("azure", WORD, 34))],
    "Alibaba key": [("LT", "AI", drawn("ali", WORD, 20))],
    "DigitalOcean token": [("dop", "_v1_", drawn("do", HEX, 64))],
    "Heroku key": [("HR", "KU-", drawn("heroku", URLSAFE, 58))],
    "Cloudflare key": [("v1", ".0-", drawn("cf", HEX, 24), "-", drawn("cloudflare", HEX, 146))],
    "Fly token": [("fm", "2_", drawn("fly", WORD, 100))],
    "Netlify token": [("nf", "p_", drawn("netlify", WORD, 36))],
    "Vercel token": [("vc", "p_", drawn("vercel", WORD, 56))],
    "Tailscale key": [("ts", "key-", "auth-", drawn("tailscale", WORD, 17), "-", drawn("tail", WORD, 32))],
    "Anthropic key": [("sk-", "ant-", "api03-", drawn("anthropic", URLSAFE, 95))],
    "OpenAI key": [("sk-", "proj-", drawn("openai", URLSAFE, 120)), ("sk-", "svcacct-", drawn("svc", URLSAFE, 60))],
    "OpenRouter key": [("sk-", "or-", "v1-", drawn("openrouter", HEX, 64))],
    "API key": [("sk-", drawn("plain", WORD, 48)), ("sk-", drawn("hex", HEX, 32)), ("sk-", "lf-", _uuid("lf"))],
    "Groq key": [("gs", "k_", drawn("groq", WORD, 52))],
    "xAI key": [("xa", "i-", drawn("xai", WORD, 80))],
    "Perplexity key": [("pp", "lx-", drawn("pplx", WORD, 48))],
    "Replicate token": [("r", "8_", drawn("replicate", WORD, 37))],
    "Hugging Face token": [("h", "f_", drawn("hf", WORD, 34))],
    "Together key": [("tgp", "_v1_", drawn("together", URLSAFE, 43))],
    "LangSmith key": [("lsv2", "_pt_", drawn("ls", HEX, 32), "_", drawn("smith", HEX, 10))],
    "Pinecone key": [("pc", "sk_", drawn("pinecone", WORD, 64))],
    "Tavily key": [("tv", "ly-", "dev-", drawn("tavily", WORD, 32))],
    "E2B key": [("e2", "b_", drawn("e2b", HEX, 40))],
    "Firecrawl key": [("f", "c-", drawn("firecrawl", HEX, 32))],
    "GitHub token": [("gh", f"{letter}_", drawn(letter, WORD, 36)) for letter in "pousr"]
    + [("github", "_pat_", drawn("pat", WORD, 22), "_", drawn("pat2", WORD, 59))],
    "GitLab token": [("gl", "pat-", drawn("gitlab", URLSAFE, 20)), ("gl", "rt-", drawn("runner", URLSAFE, 20))],
    "Atlassian token": [("AT", "ATT3", drawn("atlassian", URLSAFE, 180), "=", drawn("crc", UPPER, 8))],
    "Bitbucket token": [("AT", "BB", drawn("bb", WORD, 32)), ("AT", "CTT3", drawn("bb2", URLSAFE, 160))],
    "npm token": [("np", "m_", drawn("npm", WORD, 36))],
    "PyPI token": [("py", "pi-", "AgEI", drawn("pypi", URLSAFE, 150))],
    "RubyGems key": [("ruby", "gems_", drawn("gems", HEX, 48))],
    "crates.io token": [("ci", "o", drawn("crates", WORD, 32))],
    "Docker token": [("dckr", "_pat_", drawn("docker", URLSAFE, 27))],
    "NuGet key": [("oy", "2", drawn("nuget", LOWER, 43))],
    "Sonar token": [("sq", "p_", drawn("sonar", HEX, 40))],
    "JFrog key": [("AK", "Cp", drawn("jfrog", WORD, 69))],
    "CircleCI token": [("CC", "IPAT_", drawn("circle", WORD, 22), "_", drawn("ci", HEX, 40))],
    "Buildkite token": [("bk", "ua_", drawn("buildkite", HEX, 40))],
    "Sentry token": [("sn", "tryu_", drawn("sentry", HEX, 64))],
    "Slack token": [
        ("xo", "xb-", drawn("s1", DIGITS + "0", 12), "-", drawn("s2", WORD, 24)),
        ("xa", "pp-", "1-A", drawn("s3", UPPER, 10), "-", "4711082917364", "-", drawn("s4", HEX, 64)),
    ],
    "SendGrid key": [("S", "G.", drawn("sg", URLSAFE, 22), ".", drawn("sendgrid", URLSAFE, 43))],
    "Mailgun key": [("ke", "y-", drawn("mailgun", HEX, 32))],
    "Mailchimp key": [(drawn("mailchimp", HEX, 32), "-u", "s14")],
    "Brevo key": [("xkey", "sib-", drawn("brevo", HEX, 64), "-", drawn("sib", WORD, 16))],
    "Resend key": [("r", "e_", drawn("re", WORD, 8), "_", drawn("resend", WORD, 24))],
    "Twilio key": [("S", "K", drawn("twilio", HEX, 32))],
    "Telegram token": [("48291", "7364:", "A", "A", drawn("telegram", URLSAFE, 33))],
    "Stripe key": [("sk", "_live_", drawn("stripe", WORD, 24)), ("wh", "sec_", drawn("whsec", WORD, 32))],
    "Square token": [("sq0", "atp-", drawn("square", URLSAFE, 22))],
    "Shopify token": [("shp", "at_", drawn("shopify", HEX, 32))],
    "Plaid token": [("access", "-production-", _uuid("plaid"))],
    "PayPal token": [("access_", "token$", "production$", drawn("pp", LOWER, 16), "$", drawn("paypal", HEX, 32))],
    "PlanetScale key": [("pscale", "_tkn_", drawn("planet", URLSAFE, 43))],
    "Supabase key": [("sb", "p_", drawn("supabase", HEX, 40)), ("sb", "_secret_", drawn("supa", WORD, 31))],
    "Neon key": [("na", "pi_", drawn("neon", LOWER, 64))],
    "Databricks token": [("da", "pi", drawn("databricks", HEX, 32), "-2")],
    "Linear key": [("lin", "_api_", drawn("linear", WORD, 40))],
    "Notion token": [("sec", "ret_", drawn("notion", WORD, 43)), ("nt", "n_", drawn("ntn", WORD, 46))],
    "Figma token": [("fi", "gd_", drawn("figma", URLSAFE, 40))],
    "Airtable token": [("pa", "t", drawn("air", WORD, 14), ".", drawn("table", HEX, 64))],
    "Postman key": [("PM", "AK-", drawn("post", HEX, 24), "-", drawn("man", HEX, 34))],
    "Grafana token": [
        ("gl", "sa_", drawn("grafana", WORD, 32), "_", drawn("gr", HEX, 8)),
        ("gl", "c_", drawn("glc", WORD, 80)),
    ],
    "New Relic key": [("NR", "AK-", drawn("newrelic", UPPER, 27))],
    "Dynatrace token": [("dt0", "c01.", drawn("dyna", UPPER, 24), ".", drawn("trace", UPPER, 64))],
    "Doppler token": [("dp", ".pt.", drawn("doppler", WORD, 43))],
    "Vault token": [("hv", "s.", drawn("vault", URLSAFE, 90))],
    "Terraform token": [(drawn("terra", WORD, 14), ".atlas", "v1.", drawn("form", WORD, 67))],
    "Pulumi token": [("pu", "l-", drawn("pulumi", HEX, 40))],
    "age key": [("AGE-", "SECRET-", "KEY-1", drawn("age", UPPER, 58))],
    "1Password token": [("op", "s_eyJ", drawn("1password", BASE64, 260))],
    "LaunchDarkly key": [("sd", "k-", _uuid("launch"))],
    "Contentful token": [("CF", "PAT-", drawn("contentful", URLSAFE, 43))],
    "Mapbox token": [("sk", ".eyJ", drawn("map", WORD, 60), ".", drawn("box", URLSAFE, 22))],
    "Facebook token": [("EA", "A", drawn("facebook", WORD, 150))],
    "X bearer token": [("A" * 11, "A" * 11, drawn("x", WORD, 90))],
    "Adafruit key": [("ai", "o_", drawn("adafruit", WORD, 28))],
    "Prefect key": [("pn", "u_", drawn("prefect", WORD, 36))],
    "Shippo token": [("shippo", "_live_", drawn("shippo", HEX, 40))],
    "EasyPost key": [("EZ", "AK", drawn("easypost", WORD, 54))],
    "JSON web token": [(_jwt(),)],
}  # fmt: skip

# Found by what stands around it: the text, and the part that must go.
_PEM, _STORAGE = "PRIVATE " + "KEY-----", drawn("storage", BASE64, 86) + "=="
_KEY_BODY = "\n".join(drawn(f"pem{n}", BASE64, 64) for n in range(8))
_PASSWORD, _TOKEN = drawn("password", WORD, 14), drawn("token", WORD, 32)
_SLACK, _DISCORD, _TEAMS = (
    "T0AB12CD3/B0EF45GH6/" + drawn("hook", WORD, 24),
    drawn("hook", URLSAFE, 68),
    drawn("teams", HEX, 40),
)
_BASIC = base64.b64encode(f"jo:{_PASSWORD}".encode()).decode()
_BOT = ".GhT4a2." + drawn("bot", URLSAFE, 38)

SURROUNDED: dict[str, tuple[str, str]] = {
    "RSA key": (f"-----BEGIN RSA {_PEM}\n{_KEY_BODY}\n-----END RSA {_PEM}", _KEY_BODY[70:90]),
    "OpenSSH key": (
        f"-----BEGIN OPENSSH {_PEM}\n{_KEY_BODY}\n-----END OPENSSH {_PEM}",
        _KEY_BODY[70:90],
    ),
    "encrypted key": (
        f"-----BEGIN RSA {_PEM}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A\n\n{_KEY_BODY}\n-----END RSA {_PEM}",
        _KEY_BODY[70:90],
    ),
    "PGP key": (
        f"-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 2\n\n{_KEY_BODY}\n=ab1D\n-----END PGP PRIVATE KEY BLOCK-----",
        _KEY_BODY[70:90],
    ),
    "key in JSON": (
        json.dumps({"private_key": f"-----BEGIN {_PEM}\n{_KEY_BODY}\n-----END {_PEM}\n"}),
        _KEY_BODY[70:90],
    ),
    "key that is cut off": (f"-----BEGIN EC {_PEM}\n{_KEY_BODY[:300]}", _KEY_BODY[70:90]),
    "PostgreSQL": (f"postgresql://app:{_PASSWORD}@db.internal:5432/app", _PASSWORD),
    "MySQL": (
        f"DATABASE_URL=mysql+pymysql://root:{_PASSWORD}@localhost/app?charset=utf8",
        _PASSWORD,
    ),
    "MongoDB": (f'"mongodb+srv://svc:{_PASSWORD}@cluster0.ab1cd.mongodb.net/app"', _PASSWORD),
    "Redis": (f"redis://:{_PASSWORD}@cache:6379/0", _PASSWORD),
    "AMQP": (f"amqps://guest:{_PASSWORD}@rabbit//", _PASSWORD),
    "git over HTTPS": (
        f"git clone https://deploy:{_PASSWORD}@git.internal/team/app.git",
        _PASSWORD,
    ),
    "ADO": (f"Server=db;Database=app;User Id=sa;Password={_PASSWORD};Encrypt=true", _PASSWORD),
    "Azure storage": (
        f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={_STORAGE};EndpointSuffix=x",
        _STORAGE,
    ),
    "Azure bus": (
        f"Endpoint=sb://a/;SharedAccessKeyName=r;SharedAccessKey={_STORAGE[:43]}=",
        _STORAGE[:43],
    ),
    "Azure signature": (f"https://a.blob.core/x?sv=2022&sig={_TOKEN}%2B%3D", _TOKEN),
    "Slack webhook": (f"curl -X POST https://hooks.slack.com/services/{_SLACK}", _SLACK),
    "Discord webhook": (f"https://discord.com/api/webhooks/{'8' * 18}/{_DISCORD}", _DISCORD),
    "Discord bot": ("MTk4NjIyNDgzNDcxOTI1MjQ4"[:24] + _BOT, _BOT),
    "Teams webhook": (f"https://a.webhook.office.com/webhookb2/{_TEAMS}/IncomingWebhook/x", _TEAMS),
    "bearer": (f"Authorization: Bearer {_TOKEN}", _TOKEN),
    "basic": (f'curl -H "authorization: basic {_BASIC}"', _BASIC),
    "cookie": (f"Cookie: theme=dark; session={_TOKEN}; lang=en", _TOKEN),
    "cookie that is set": (f"Set-Cookie: sid={_PASSWORD}; Path=/; HttpOnly", _PASSWORD),
    "cookie of curl": (f"curl -H 'Cookie: session={_TOKEN}' https://x.test", _TOKEN),
    "cookie in code": (f'{{"headers": {{"Cookie": "sessionid={_TOKEN}"}}}}', _TOKEN),
    "Slack webhook without a scheme": (f"hooks.slack.com/services/{_SLACK}", _SLACK),
    "curl": (f"curl -fsS -u 'admin:{_PASSWORD}' https://x.test", _PASSWORD),
    "netrc": (f"machine x.test login jo password {_PASSWORD}", _PASSWORD),
    "header": (f"x-api-key: {_TOKEN}", _TOKEN),
    "environment": (f"export DB_PASSWORD={_PASSWORD}", _PASSWORD),
    "environment in quotes": (f'export SECRET_KEY="{_TOKEN}"', _TOKEN),
    "AWS secret": (
        f"aws_secret_access_key = {drawn('awssecret', BASE64, 40)}",
        drawn("awssecret", BASE64, 40),
    ),
    "YAML": (f"db:\n  password: {_PASSWORD}\n", _PASSWORD),
    "JSON": (json.dumps({"client_secret": _TOKEN}), _TOKEN),
    "JSON in JSON": (json.dumps({"body": json.dumps({"client_secret": _TOKEN})}), _TOKEN),
    "Python": (f"API_KEY: str = '{_TOKEN}'", _TOKEN),
    "dictionary": (f"config['api_key'] = '{_TOKEN}'", _TOKEN),
    "PHP": (f"define('DB_PASSWORD', '{_PASSWORD}');", _PASSWORD),
    "Ruby": (f":password => '{_PASSWORD}'", _PASSWORD),
    "query": (f"https://x.test/cb?access_token={_TOKEN}&state=1", _TOKEN),
    "option": (f"deploy --api-token {_TOKEN} --region eu", _TOKEN),
    "option with sign": (f"mysql --password={_PASSWORD} app", _PASSWORD),
    "npmrc": (f"//registry.test/:_authToken={_TOKEN}", _TOKEN),
}


AWS = "AKIA" + "IOSFODNN7EXAMPLE"


SECRETS = [
    AWS,
    "sk-ant-" + "api03-abcdefghijklmnop",
    "sk-proj-" + "Abcdefghijklmnop1234",
    "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "xoxb-" + "123456789012-abcdefghijkl",
    "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
    "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N",
]


KEY_LINE = "MIIEpAIBAAKCAQEA7bq98a1xZk0Tn5Yw2uE4r6T8y0U1i3O5p7A9s1D3f5G7h9J1"


EXAMPLES = [(kind, "".join(parts)) for kind, examples in PREFIXED.items() for parts in examples]
