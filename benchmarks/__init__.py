"""Speed and quality, side by side with peers; results are committed as data."""
