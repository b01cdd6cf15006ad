"""What the commands do, as functions: from tables to results, without a terminal."""
