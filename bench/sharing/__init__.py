"""Share rows with other machines: pack them, check them where they arrive, list and fetch them."""
