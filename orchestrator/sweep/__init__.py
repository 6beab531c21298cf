"""`mapspace sweep`: a proven best mapping for every machine of a grid."""
