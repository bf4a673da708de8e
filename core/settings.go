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
	said        matter // matters that the options of the present level have decided
	ttl         time.Duration
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

func defaultConfig() engineConfig {
	return engineConfig{
		defaults: settings{
			ttl:         30 * time.Second,
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

// matter is what an option decides. On one level, each matter is decided once, so the order of
// options means nothing.
type matter uint32

const (
	aboutTTL matter = 1 << iota
	aboutWait
	aboutMode
	aboutHierarchy
	aboutMaxHold
	aboutMinHold
	aboutLinger
	aboutContext
	aboutUnlocked
	aboutRule
	aboutRetention
	aboutResultLimit
	aboutFingerprint
	aboutAnyContent
	aboutExecutor
	aboutShadow
	aboutMove
	aboutLogger
	aboutKeyFilter
	aboutMaxWaiters
	aboutMaxWaitersTotal
	aboutMaxLingering
	aboutCircuit
	aboutReleaseTimeout
	aboutNothing matter = 0 // it may be given any number of times
)

// exclusive names the options of those matters that several options decide.
var exclusive = map[matter]string{
	aboutTTL:  "one of WithTTL and WithAdaptiveTTL",
	aboutWait: "one of WithMaxWait and WithFailFast",
	aboutMode: "one of WithShared and WithPermits",
}

// decide notes that option decides m. It returns an error if another option of the same level
// has done so.
func (s *settings) decide(m matter, option string) error {
	if s.said&m != 0 {
		want := exclusive[m]
		if want == "" {
			want = "it"
		}
		return &OptionError{Option: option, Value: "...", Want: want + " once"}
	}
	s.said |= m
	return nil
}

type option struct {
	name  string
	about matter
	set   func(*settings) error
}

func (o option) apply(s *settings) error {
	if err := s.decide(o.about, o.name); err != nil {
		return err
	}
	return o.set(s)
}

func (o option) applyEngine(c *engineConfig) error { return o.apply(&c.defaults) }

// callOption is an option that New does not take.
type callOption option

func (o callOption) apply(s *settings) error { return option(o).apply(s) }

type engineOption struct {
	name  string
	about matter
	set   func(*engineConfig) error
}

func (o engineOption) applyEngine(c *engineConfig) error {
	if err := c.defaults.decide(o.about, o.name); err != nil {
		return err
	}
	return o.set(c)
}

// apply applies the options of one level. Policies among them are a level below, so an option
// beside a policy overrides it.
func (s *settings) apply(opts []CallOption) error {
	var errs []error
	var byPolicies matter
	for _, o := range opts {
		p, ok := o.(Policy)
		if !ok {
			continue
		}
		if err := s.apply(p.opts); err != nil {
			errs = append(errs, err)
		}
		if byPolicies&s.said != 0 {
			errs = append(errs, &OptionError{Option: "Policy", Value: "...", Want: "policies that do not set the same option twice"})
		}
		byPolicies |= s.said
	}
	s.said = 0
	for _, o := range opts {
		if err := s.applyOne(o); err != nil {
			errs = append(errs, err)
		}
	}
	s.said |= byPolicies
	return errors.Join(errs...)
}

// applyOne applies an option that is no policy.
func (s *settings) applyOne(o CallOption) error {
	switch o := o.(type) {
	case nil:
		return &OptionError{Option: "CallOption", Value: nil, Want: "not nil"}
	case Policy:
		return nil
	default:
		return o.apply(s)
	}
}
