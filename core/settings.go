package core

import (
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/internal/holdstats"
	"github.com/keyturn/keyturn/core/observe"
)

// settings are the settings of one call.
type settings struct {
	ttl         time.Duration    // 0 in an engine's settings: the store's nearest to defaultTTL
	adaptive    holdstats.Bounds // zero: the TTL is ttl
	maxWait     time.Duration    // 0: as long as the context
	failFast    bool
	mode        driver.Mode   // of claims on plain keys
	permits     int           // ModePermit only
	hierarchy   bool          // keys have levels
	maxHold     time.Duration // 0: for ever
	minHold     time.Duration
	linger      time.Duration
	keepContext bool // the context survives a loss
	runUnlocked bool // Do and Once run without the lock in an outage
	rule        string
	once        bool // the call is Engine.Once
	retention   time.Duration
	resultLimit int
	fingerprint []byte
	anyContent  bool // fingerprints are not compared
	executor    Executor
	shadow      shadowState
	moveFrom    *Engine // not nil: its claims are held, too
	fresh       bool    // the lease is granted by the store, never handed on
	old         *Lease  // the old store's, which it is taken under (WithMoveFrom)
}

type engineConfig struct {
	defaults        settings
	hooks           []observe.Hooks
	log             *slog.Logger
	maxWaiters      int
	maxWaitersTotal int
	maxLingering    int
	circuit         time.Duration // 0: never opens
	releaseTimeout  time.Duration
	keyFilter       func(string) string
	wall            func(time.Time) time.Time // a clock that goes on while the machine sleeps; nil: the machine's
}

// defaultTTL is the TTL without [WithTTL], or the nearest that the store can keep.
const defaultTTL = 15 * time.Second

func defaultConfig() engineConfig {
	return engineConfig{
		defaults: settings{
			maxWait:     30 * time.Second,
			maxHold:     10 * time.Minute,
			retention:   24 * time.Hour,
			resultLimit: 64 << 10,
		},
		maxWaiters:      1000,
		maxWaitersTotal: 20_000,
		maxLingering:    10_000,
		circuit:         2 * time.Second,
		releaseTimeout:  5 * time.Second,
	}
}

// Forever means "no bound" to [WithMaxWait], [WithMaxHold] and [WithCircuit]. Zero is an error
// there, because a reader could take it for "none" as well as for "no bound".
const Forever time.Duration = math.MaxInt64

// longestRetention leaves every store room to add it to the present time, in its own units.
const longestRetention = 100 * 365 * 24 * time.Hour

// bounded returns a duration as settings keep it: Forever becomes 0.
func bounded(d time.Duration) time.Duration {
	if d == Forever {
		return 0
	}
	return d
}

// failFastTime is how long callers that do not wait for a holder wait for a silent store.
const failFastTime = 5 * time.Second

// patience is how long a call waits: for a holder and the store, or for the store alone. 0: no
// bound.
func (s *settings) patience() time.Duration {
	if s.failFast && (s.maxWait == 0 || s.maxWait > failFastTime) {
		return failFastTime
	}
	return s.maxWait
}

// fit makes the settings such as the store can keep, or says why it can't.
func (s *settings) fit(store driver.Description) error {
	return errors.Join(s.fitTTL(store.TTLs), s.fitMinHold(store), s.fitLinger(store))
}

// forLease refuses the options that only calls with a function keep. Such calls have dealt with them.
func (s *settings) forLease() error {
	if s.executor == nil && s.shadow != shadowed && s.moveFrom == nil {
		return nil
	}
	return errors.Join(s.onlyOnce(), s.noShadow(), s.noMove())
}

// Options of the three kinds. Each changes what those before it in the list have said.
type (
	option       func(*settings) error
	callOption   func(*settings) error     // New does not take it
	modeOption   func(*settings) error     // a call option that says how keys are claimed
	engineOption func(*engineConfig) error // New alone takes it
)

func (o option) apply(s *settings) error           { return o(s) }
func (o option) applyEngine(c *engineConfig) error { return o(&c.defaults) }

func (o callOption) apply(s *settings) error { return o(s) }

func (o modeOption) apply(s *settings) error { return o(s) }

func (o engineOption) applyEngine(c *engineConfig) error { return o(c) }

// apply applies options in order, so the last one about a matter counts.
func (s *settings) apply(opts []CallOption) error {
	var errs []error
	for _, o := range opts {
		if o == nil {
			errs = append(errs, &OptionError{Option: "CallOption", Value: nil, Want: "not nil"})
		} else if err := o.apply(s); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
