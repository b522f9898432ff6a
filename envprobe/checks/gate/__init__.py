"""What `gate` says itself: all else is said by the checks of the commands that it is made of."""
