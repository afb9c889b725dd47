// Command gofiber is the same work as Sluice's done by Fiber's own middleware:
// limit each tenant, replay by Idempotency-Key if asked to, and forward. It is
// a module of its own, so that what it depends on stays out of Sluice's.
package main

import (
	"flag"
	"log"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"
	"github.com/gofiber/fiber/v3/middleware/limiter"
	"github.com/gofiber/fiber/v3/middleware/proxy"
	"github.com/gofiber/storage/redis/v3"
	"github.com/valyala/fasthttp"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	origin := flag.String("origin", "", "base URL of the origin")
	limit := flag.Int("limit", 1, "requests that a tenant may send a second")
	window := flag.Duration("window", time.Second, "window that the limit is for")
	keys := flag.Bool("keys", false, "replay by Idempotency-Key")
	redisAddr := flag.String("redis", "", "Redis server to keep answers and counts in; memory if not given")
	flag.Parse()

	var storage fiber.Storage
	if *redisAddr != "" {
		storage = redis.New(redis.Config{Addrs: []string{*redisAddr}})
	}
	app := fiber.New(fiber.Config{BodyLimit: 1 << 20})
	if *keys {
		app.Use(idempotency.New(idempotency.Config{
			KeyHeader:         "Idempotency-Key",
			KeyHeaderValidate: func(string) error { return nil },
			Storage:           storage,
		}))
	}
	app.Use(limiter.New(limiter.Config{
		Max:          *limit,
		Expiration:   *window,
		Storage:      storage,
		KeyGenerator: func(c fiber.Ctx) string { return c.Get("X-Tenant-Id") },
	}))
	client := &fasthttp.Client{MaxConnsPerHost: 1024, NoDefaultUserAgentHeader: true, DisablePathNormalizing: true}
	app.All("/*", func(c fiber.Ctx) error {
		return proxy.Do(c, *origin+c.OriginalURL(), client)
	})
	log.Fatal(app.Listen(*listen, fiber.ListenConfig{DisableStartupMessage: true}))
}
