package run

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/keyturn/keyturn/examples/im/load"
	"github.com/keyturn/keyturn/examples/im/node"
)

const (
	soakLines   = 20  // of the table
	soakSamples = 240 // of the CSV
)

// sample is how large the fleet and its Redis are at a moment. Counts are since the start of the soak.
type sample struct {
	after                                        time.Duration
	served, refused, failed, unexplained, struck int64
	heap                                         uint64 // bytes, of the processes that are never killed
	goroutines                                   int    // of the same
	connections, keys, memory                    int64  // of Redis
	overfull                                     int    // groups that were wrong
}

// watch takes samples until ctx ends. It prints some of them, writes all of them as CSV, and returns how
// often it saw a group that no lock protected.
func (s *soaked) watch(ctx context.Context, out io.Writer, how soaking, here *node.Node, stayers []string) (overfull int, err error) {
	lines := csv.NewWriter(io.Discard)
	if how.samples != nil {
		lines = csv.NewWriter(how.samples)
	}
	_ = lines.Write(sampleNames) // lines.Error says whether it was written
	fmt.Fprintln(out, "| "+strings.Join(sampleTitles, " | ")+" |")
	fmt.Fprintln(out, strings.Repeat("|---", len(sampleTitles))+"|")
	begin := time.Now()
	before, printed := sample{}, sample{}
	for lines.Error() == nil {
		Rest(ctx, max(how.long/soakSamples, leastPause))
		if ctx.Err() != nil {
			break
		}
		now, err := s.sample(ctx, here, stayers)
		if err != nil {
			continue // a fault of this moment; groups that are wrong stay so for a while
		}
		now.after, now.overfull = time.Since(begin), now.overfull+before.overfull
		_ = lines.Write(now.cells(before))
		lines.Flush() // what was seen is worth something even if the rest never comes
		if now.after-printed.after >= how.long/soakLines {
			fmt.Fprintln(out, "| "+strings.Join(now.cells(printed), " | ")+" |")
			printed = now
		}
		before = now
	}
	return before.overfull, lines.Error()
}

// sample looks at the fleet.
func (s *soaked) sample(ctx context.Context, here *node.Node, stayers []string) (now sample, err error) {
	for g := range soakGroups {
		members, err := here.DB.Members(ctx, fmt.Sprint(g))
		if err != nil {
			return now, err
		}
		if load.Violations(members) > 0 {
			now.overfull++
		}
	}
	if now.heap, now.goroutines, err = here.Vitals(ctx, stayers); err != nil {
		return now, err
	}
	clients, err := here.Redis.ClientList(ctx).Result()
	if err != nil {
		return now, err
	}
	now.connections = int64(strings.Count(clients, "\n"))
	if now.keys, err = here.Redis.DBSize(ctx).Result(); err != nil {
		return now, err
	}
	info, err := here.Redis.Info(ctx, "memory").Result()
	if found := usedMemory.FindStringSubmatch(info); found != nil {
		now.memory, _ = strconv.ParseInt(found[1], 10, 64)
	}
	now.served, now.refused = s.served.Load(), s.refused.Load()
	now.failed, now.unexplained, now.struck = s.failed.Load(), s.unexplained.Load(), s.faults.struck.Load()
	return now, err
}

var usedMemory = regexp.MustCompile(`(?m)^used_memory:(\d+)`)

// The columns of the CSV, and of the table.
var (
	sampleNames  = []string{"seconds", "requests_per_second", "refused", "failed", "unexplained", "faults", "heap_mb", "goroutines", "connections", "keys", "redis_mb", "groups_wrong"}
	sampleTitles = []string{"after, s", "requests/s", "refused", "failed", "without a fault", "faults", "heap, MB", "goroutines", "connections of Redis", "keys in Redis", "Redis, MB", "groups wrong"}
)

// cells returns the columns. The rate is that since the sample before.
func (s sample) cells(before sample) []string {
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	megabytes := func(bytes float64) string { return strconv.FormatFloat(bytes/(1<<20), 'f', 2, 64) }
	return []string{
		strconv.FormatFloat(s.after.Seconds(), 'f', 0, 64),
		strconv.FormatFloat(float64(s.served-before.served)/(s.after-before.after).Seconds(), 'f', 0, 64),
		count(s.refused), count(s.failed), count(s.unexplained), count(s.struck),
		megabytes(float64(s.heap)), strconv.Itoa(s.goroutines), count(s.connections), count(s.keys), megabytes(float64(s.memory)),
		strconv.Itoa(s.overfull),
	}
}
