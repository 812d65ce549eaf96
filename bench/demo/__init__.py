"""`limen demo`: the same media over the same link twice, compared."""
