"""From stored rows to tables, figures, pages and a recommendation, without any numerical framework."""
