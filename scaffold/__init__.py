"""What holds the house while rooms are moved; it leaves when they stand."""
