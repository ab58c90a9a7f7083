"""What lm-eval is extended with: a judged task, a group with a mean of its own, requests and their chats."""
