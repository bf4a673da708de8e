package load

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/keyturn/keyturn/examples/im/service"
)

// The groups are small, and more users want to join than there are seats. In each round new
// users try to join, each through two gateways at once (a double click, a retry after a
// timeout), while users of the round before leave.
const (
	groups    = 4
	rounds    = 8
	newcomers = 8 // per round; more than there are seats
)

func playGroups(ctx context.Context, c *client, to Target, sum *Figures) error {
	violations := make([]int, groups)
	err := parallel(ctx, groups, func(ctx context.Context, g int) error {
		for round := range rounds {
			n, err := playRound(ctx, c, to, fmt.Sprintf("group-%d", g), round)
			if err != nil {
				return err
			}
			violations[g] += n
		}
		return nil
	})
	for _, n := range violations {
		sum.GroupViolations += n
	}
	return err
}

// playRound returns the number of violations at the end of a round. When it begins, there are
// fewer members than seats. When it ends, nobody of the round before is left.
func playRound(ctx context.Context, c *client, to Target, group string, round int) (violations int, err error) {
	const leaving = newcomers / 2
	member := func(round, i int) string { return fmt.Sprintf("/groups/%s/members/user-%d-%d", group, round, i) }

	err = parallel(ctx, 2*newcomers+leaving, func(ctx context.Context, i int) error {
		if i < 2*newcomers {
			return c.do(ctx, i, http.MethodPut, member(round, i/2), nil)
		}
		return c.do(ctx, i, http.MethodDelete, member(round-1, i-2*newcomers), nil)
	})
	if err != nil {
		return 0, err
	}
	members, err := to.DB.Members(ctx, group)
	if err != nil {
		return 0, err
	}
	// The other half leaves without joiners, which makes room for the next round.
	err = parallel(ctx, newcomers-leaving, func(ctx context.Context, i int) error {
		return c.do(ctx, i, http.MethodDelete, member(round, leaving+i), nil)
	})
	return Violations(members), err
}

// Violations counts members over the capacity and members that are in twice. A member that is
// both counts as in twice.
func Violations(members []string) int {
	slices.Sort(members)
	distinct := slices.Compact(slices.Clone(members))
	return len(members) - len(distinct) + max(0, len(distinct)-service.Capacity)
}
