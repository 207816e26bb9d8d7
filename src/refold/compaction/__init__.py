"""A page that is too full gets a plan, and the plan is carried out."""
