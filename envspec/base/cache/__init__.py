"""What lies in the cache, what of it may go to make room, and taking it away."""
