"""The app as a server: launched, guarded, with named endpoints."""
