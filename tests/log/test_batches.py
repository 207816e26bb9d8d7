"""The list of compactions."""

from __future__ import annotations

from tests.turns import opened, work


def test_batches_are_listed_with_their_sizes_and_whether_they_stand(url):
    context = opened(url, config={"auto": False}, window=60_000)
    assert context.log.batches() == []
    receipts = []
    for turn in range(3):
        context.append({"role": "user", "content": f"question {turn}"})
        work(context, 12)
        receipts.append(context.compact())
    context.undo()
    listed = context.log.batches()
    assert [(one.id, one.strategy) for one in listed] == [
        (receipt.batch, receipt.strategy) for receipt in receipts
    ]
    for one, receipt in zip(listed, receipts, strict=True):
        assert (one.tokens_before, one.tokens_after) == (
            receipt.tokens_before,
            receipt.tokens_after,
        )
        assert one.edits == len(receipt.items) and one.at_ms
    assert [one.live for one in listed] == [True, True, False]
    context.redo()
    assert all(one.live for one in context.log.batches())
    context.close()
