package drivertest

import (
	"math/rand/v2"
	"strings"
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
	for seed := uint64(1); seed <= mostPrograms; seed++ {
		if seed > max(leastPrograms, s.programs) && s.Settle == nil && time.Since(began) > programBudget {
			return
		}
		prefix := s.key()
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
			s.Fatalf("program %d: %v", seed, strings.ReplaceAll(err.Error(), prefix, ""))
		}
	}
}
