// Package signals reads the age, the depth and the completions of real queues.
//
// There is one reader a file, and each is a few commands that its source
// answers in about a millisecond: a Redis stream ([RedisStream]) or the job
// lists of frameworks on Redis ([RedisList]), RabbitMQ ([RabbitMQ]), a table in
// PostgreSQL ([SQL]), a metric in Prometheus ([Prometheus]), any JSON over HTTP
// ([HTTP]), and what the origin tells by itself ([Push]).
//
// A reader says what its source said, no more. What a source cannot tell is
// left out of the sample; an error, an empty answer or a missing queue is an
// error, never a zero; and a value that makes no sense is passed on as it is,
// for package shedding to refuse and to count.
//
// The [Poller] calls readers period by period. A reader that hangs is given up
// for that period, and is not called again until it has come back: it can block
// neither a request nor another signal.
package signals
