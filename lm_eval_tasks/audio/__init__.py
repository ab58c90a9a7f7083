"""A clip as a reference: found, checked once, encoded when it is sent."""
