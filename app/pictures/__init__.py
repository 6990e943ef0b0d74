"""Pictures of what is stored: plain values in, SVG text out. Nothing here knows HTTP or SQL."""
