"""Package folders and records -> one HTML page. Works on folders and rows; imports nothing of the compiler."""
