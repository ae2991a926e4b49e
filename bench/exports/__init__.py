"""Write the suite and its history in the formats of other tools."""
