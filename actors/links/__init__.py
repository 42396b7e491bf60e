"""How members and clients are connected: TCP links that carry frames, their handshake, and dialling again."""
