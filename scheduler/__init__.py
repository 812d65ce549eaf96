"""Tags, importance and the last-moment scheduler. Pure and sans-IO: `now` is passed in."""
