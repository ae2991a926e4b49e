"""Make tables, figures, pages and a recommendation from stored rows, without any numerical framework."""
