"""One client for every OpenAI-compatible server, be it the model's or the judge's."""
