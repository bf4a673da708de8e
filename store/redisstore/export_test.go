package redisstore

import "time"

// KeepReasons has the reasons of forced releases stay for d.
func KeepReasons(d time.Duration) Option {
	return func(c *config) error { c.forcedFor = d; return nil }
}
