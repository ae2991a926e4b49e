"""Hold one module per verb of the command `gfy`; each is imported only when its verb is used."""
