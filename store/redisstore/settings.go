package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/store/internal/onredis"
)

// settings are the checks of the server's configuration. A store runs them when it starts, and
// logs a warning; [Store.Check] runs them, too. Each returns nil if all is well, or if the user
// may not read the setting.
var settings = []checkItem{
	{policyName, always(policyAdvice), (*Store).checkPolicy},
	{"min-replicas-to-write", always("set it and min-replicas-max-lag, or use WithReplicas"), (*Store).checkPartition},
}

const (
	policyName   = "maxmemory-policy"
	policyAdvice = "set it to noeviction"
	evicts       = "locks may be evicted while they are held"
)

// settingError is a setting under which locks may break their promises. The application may
// know that it does not matter.
type settingError struct {
	name, value string
	effect      string
}

func (e *settingError) Error() string { return fmt.Sprintf("is %q, so that %s", e.value, e.effect) }

// warn runs the checks once and logs what they find.
func (s *Store) warn() {
	for _, item := range settings {
		ctx, cancel := context.WithTimeout(s.ctx, checkTimeout)
		var bad *settingError
		if errors.As(item.look(s, ctx), &bad) {
			s.cfg.log.Warn("keyturn: a setting of this Redis may cost locks: "+bad.effect+": "+item.advice(bad), bad.name, bad.value)
		}
		cancel()
	}
}

// checkPolicy: a lease that is evicted to make room is granted to the next owner while its
// holder works.
func (s *Store) checkPolicy(ctx context.Context) error {
	policy, err := s.info(ctx, "memory", "maxmemory_policy")
	if err != nil || policy == "" {
		policy = s.setting(ctx, policyName)
	}
	if policy == "" || policy == "noeviction" {
		return nil
	}
	return &settingError{policyName, policy, evicts}
}

// checkPartition: Sentinel may promote another master beside one that is only cut off. The old
// one must stop by itself. Otherwise each side's clients hold the same locks for as long as the
// partition lasts. With WithReplicas, its grants and renewals stop.
func (s *Store) checkPartition(ctx context.Context) error {
	const name = "min-replicas-to-write"
	client, ok := s.client.(*redis.Client)
	if !ok || client.Options().Addr != failoverAddr || s.cfg.replicas > 0 {
		return nil
	}
	if role, _ := s.info(ctx, "replication", "role"); role == "master" {
		if good, _ := s.info(ctx, "replication", "min_slaves_good_slaves"); good != "" {
			return nil // a master counts its replicas only if this is set
		}
	} else if s.setting(ctx, name) != "0" {
		return nil
	}
	return &settingError{name, "0", "a master that is cut off goes on granting and renewing beside the one that Sentinel promotes"}
}

// failoverAddr is the address that go-redis shows for a client that asks Sentinels.
const failoverAddr = "FailoverClient"

// info returns a field of a section of INFO; "" if there is none.
func (s *Store) info(ctx context.Context, section, field string) (string, error) {
	said, err := s.client.Info(ctx, section).Result()
	if err != nil {
		return "", err
	}
	return onredis.Field(said, field), nil
}

// setting returns a setting by CONFIG GET; "" if the server does not say. Managed services
// often forbid CONFIG, but not INFO.
func (s *Store) setting(ctx context.Context, name string) string {
	settings, err := s.client.ConfigGet(ctx, name).Result()
	if err != nil {
		return ""
	}
	return settings[name]
}
