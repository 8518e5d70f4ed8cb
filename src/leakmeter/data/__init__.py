"""Cases from files: texts, JSON lines, chats."""
