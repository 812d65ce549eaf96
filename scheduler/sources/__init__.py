"""Tag sources: small parts that turn media or pointers into statements of importance."""
