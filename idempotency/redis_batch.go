package idempotency

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

type batcher struct {
	client  redis.UniversalClient
	timeout time.Duration
}

func (b *batcher) init(client redis.UniversalClient, timeout time.Duration) {
	b.client, b.timeout = client, timeout
}

func (b *batcher) process(ctx context.Context, cmd *redis.Cmd) error {
	return b.client.Process(ctx, cmd)
}
