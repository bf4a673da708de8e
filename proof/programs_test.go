package proof_test

import (
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/proof"
)

var (
	keys   = []string{"a", "b", "c"}
	likely = []string{"a", "a", "a", "b", "b", "c"}
)

// programs draws them. They are about few keys, so that much goes on at each. A
// list of lists gets longer than a list would, and shrinks as well.
func programs() *rapid.Generator[[]proof.Step] {
	parts := rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(step), 0, 20), 1, 12)
	return rapid.Map(parts, func(parts [][]proof.Step) []proof.Step { return slices.Concat(parts...) })
}

// ops has what makes things happen more often than the rest.
var ops = slices.Concat(
	slices.Repeat([]proof.Op{proof.Ask}, 10),
	slices.Repeat([]proof.Op{proof.Release}, 6),
	slices.Repeat([]proof.Op{proof.Expire, proof.Pass, proof.GiveUp, proof.Renew, proof.Change}, 2),
	[]proof.Op{proof.Again, proof.Part, proof.Complete, proof.Forget, proof.Force, proof.List},
)

// flaws: most of what owners bring is right.
var flaws = append(slices.Repeat([]proof.Flaw{proof.Sound}, 9), proof.WrongToken, proof.NoToken, proof.WrongMode)

func step(t *rapid.T) proof.Step {
	s := proof.Step{Op: rapid.SampledFrom(ops).Draw(t, "op"), TTL: time.Minute}
	switch s.Op {
	case proof.Ask:
		s.Wait = rapid.SampledFrom([]bool{true, true, false}).Draw(t, "wait")
		s.Once = rapid.IntRange(0, 5).Draw(t, "once") == 5
		s.TTL = ttl(t)
		if s.Once {
			s.Claims = []driver.Claim{driver.Exclusive(rapid.SampledFrom(likely).Draw(t, "key"))}
			break
		}
		// Most want one key: sets of sets are rarely let in.
		n := rapid.SampledFrom([]int{1, 1, 1, 2, 2, 3}).Draw(t, "claims")
		s.Claims = rapid.SliceOfNDistinct(rapid.Custom(claim), n, n, func(c driver.Claim) string { return c.Key }).Draw(t, "claims")
		slices.SortFunc(s.Claims, func(a, b driver.Claim) int { return strings.Compare(a.Key, b.Key) })
	case proof.Pass:
		s.TTL = time.Duration(rapid.IntRange(1, 20).Draw(t, "seconds")) * time.Second
	case proof.Forget, proof.Force:
		s.Key = rapid.SampledFrom(likely).Draw(t, "key")
	case proof.List:
	default:
		s.Who = rapid.IntRange(0, 7).Draw(t, "who")
		s.Count = rapid.IntRange(1, 3).Draw(t, "count")
		s.Mode = rapid.SampledFrom([]driver.Mode{driver.ModeShared, driver.ModeShared, driver.ModeExclusive, driver.ModePermit}).Draw(t, "mode")
		s.Flaw = rapid.SampledFrom(flaws).Draw(t, "flaw")
		s.TTL = ttl(t)
	}
	return s
}

func ttl(t *rapid.T) time.Duration {
	return time.Duration(rapid.SampledFrom([]int{3, 12, 60}).Draw(t, "ttl")) * time.Second
}

func claim(t *rapid.T) driver.Claim {
	key := rapid.SampledFrom(likely).Draw(t, "key")
	switch rapid.SampledFrom([]driver.Mode{driver.ModeExclusive, driver.ModeShared, driver.ModePermit}).Draw(t, "mode") {
	case driver.ModeShared:
		return driver.Shared(key)
	case driver.ModePermit:
		return driver.Permit(key, rapid.IntRange(1, 3).Draw(t, "permits"))
	default:
		return driver.Exclusive(key)
	}
}
