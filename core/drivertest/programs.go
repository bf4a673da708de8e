package drivertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/core/drivertest/model"
)

var programChecks = []check{
	{
		name: "A to R, random programs do what the model does", run: randomPrograms, ordered: true,
		can: driver.Description{Shared: true, Permits: true, Sets: true, Ledger: true, Inspector: true},
	},
}

const (
	mostPrograms  = 60
	leastPrograms = 5
	programSteps  = 100 // of each
	// programBudget is for how long further programs begin: on a real backend each takes a
	// while.
	programBudget = 2 * time.Second
)

// randomPrograms are the same in each run. Package proof has more of them.
func randomPrograms(s *scene) {
	stores := []driver.Store{s.open(), s.open()}
	began := time.Now()
	least := max(leastPrograms, s.programs)
	switch {
	case s.OneByOne && s.brief(): // each takes a minute of a processor under the race detector
		least = 1
	case s.OneByOne:
		least = 2
	case s.brief(): // what they alone find, the first ones do (controls_test.go)
		least = leastPrograms
	}
	next := uint64(1)
	if s.OtherBackend != nil && !s.OneByOne { // nearly all that they do is to wait, as the tests do
		errs := make([]error, least)
		var all sync.WaitGroup
		for i := range errs {
			// A store tells one engine what is wanted.
			own, prefix := []driver.Store{s.open(), s.open()}, s.key()
			all.Go(func() { errs[i] = s.runProgram(own, prefix, next+uint64(i)) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			s.Fatalf("%v", err)
		}
		next += least
	}
	for seed := next; seed <= mostPrograms; seed++ {
		if seed > least && (s.brief() || s.Settle == nil && time.Since(began) > programBudget) {
			return
		}
		if err := s.runProgram(stores, s.key(), seed); err != nil {
			s.Fatalf("%v", err)
		}
	}
}

// runProgram runs the program of that seed, on keys that begin with prefix.
func (s *scene) runProgram(stores []driver.Store, prefix string, seed uint64) error {
	rig := model.Rig{
		Stores: stores, Keys: []string{prefix + "a", prefix + "b", prefix + "c"},
		Sleep: time.Sleep, Settle: s.Settle, Patience: 5 * s.Late, Latitude: s.Latitude, TTLs: s.ttls,
	}
	if rig.Exact = rig.Settle != nil; rig.Exact {
		rig.Patience = 0
	} else {
		rig.Settle = func() {}
	}
	choices := rand.New(rand.NewPCG(seed, 0))
	var program []model.Step
	for range programSteps {
		program = append(program, model.Random(choices.IntN))
	}
	if err := rig.Run(program); err != nil {
		return fmt.Errorf("program %d: %s", seed, strings.ReplaceAll(err.Error(), prefix, ""))
	}
	return nil
}
