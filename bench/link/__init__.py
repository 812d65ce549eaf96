"""Link emulation: a pure model of one direction, profiles of links, processes driving it."""
