package redisstore

import (
	"context"
	"strings"
	"time"
)

// evictionTimeout bounds the look at the server's settings.
const evictionTimeout = 5 * time.Second

// checkEviction warns if the server may throw leases away to make room. A
// lease that is evicted is granted to the next one while its holder works. It
// is no error: the application may know that memory never gets short.
func (s *Store) checkEviction() {
	ctx, cancel := context.WithTimeout(s.ctx, evictionTimeout)
	defer cancel()
	policy := s.evictionPolicy(ctx)
	if policy == "" || policy == "noeviction" {
		return // fine, or we may not look
	}
	s.cfg.log.Warn("keyturn: this Redis may evict locks while they are held: set maxmemory-policy to noeviction",
		"maxmemory-policy", policy)
}

// evictionPolicy returns "" if the server does not answer, or does not let us
// ask: managed services often forbid CONFIG, but not INFO.
func (s *Store) evictionPolicy(ctx context.Context) string {
	info, err := s.client.Info(ctx, "memory").Result()
	if err == nil {
		for line := range strings.Lines(info) {
			if policy, ok := strings.CutPrefix(line, "maxmemory_policy:"); ok {
				return strings.TrimSpace(policy)
			}
		}
	}
	settings, err := s.client.ConfigGet(ctx, "maxmemory-policy").Result()
	if err != nil {
		return ""
	}
	return settings["maxmemory-policy"]
}
