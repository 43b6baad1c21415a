"""Operations of neural networks: activations, normalisations, attention, losses."""
