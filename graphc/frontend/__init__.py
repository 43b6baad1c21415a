"""What users build graphs with beside operations: variables, control flow, gradients, files."""
