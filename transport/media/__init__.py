"""Tracks as users see them: samples and pictures in, played-out frames out."""
