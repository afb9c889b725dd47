package idempotency

const maxBody = 64 << 20
