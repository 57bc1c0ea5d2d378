"""Tables, pictures and pages of studies and searches."""
