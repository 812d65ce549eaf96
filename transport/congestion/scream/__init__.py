"""SCReAMv2 (draft-ietf-ccwg-rfc8298bis-screamv2), split by idea; `controller` joins the parts."""
