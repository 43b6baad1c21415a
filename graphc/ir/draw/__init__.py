"""Pictures of graphs: what is drawn, where it is placed, and the forms it is written in."""
