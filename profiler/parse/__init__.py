"""What tools print, as rows. Pure."""
