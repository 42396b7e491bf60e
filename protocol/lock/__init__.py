"""The consume lock: who may consume, on Ownership's side and on the owner's."""
