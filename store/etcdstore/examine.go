package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/casstore"
)

const (
	// examineTimeout bounds the questions to one server.
	examineTimeout = 5 * time.Second
	// mostTxnOps is how many operations a transaction of the store has at most.
	mostTxnOps = 112
	// slowElection: if the shortest lease is longer than that, the election timeout is above what
	// docs/operations-etcd.md advises.
	slowElection = 2 * time.Second
)

// examine implements [driver.Description].Examine: the members, what they complain of, and the settings
// that can be seen from outside.
func (s *Store) examine(ctx context.Context) []driver.Finding {
	if err := s.calls.Enter(); err != nil {
		return []driver.Finding{{About: "members", Risk: err.Error(), Advice: "open the store again"}}
	}
	defer s.calls.Leave()
	endpoints := s.client.Endpoints()
	all := []driver.Finding{s.examineMembers(ctx, len(endpoints))}
	servers := make([][]driver.Finding, len(endpoints))
	_ = casstore.Parallel(len(endpoints), func(i int) error {
		servers[i] = s.examineServer(ctx, endpoints[i])
		return nil
	})
	return append(slices.Concat(all, slices.Concat(servers...)), s.examineElection(), s.examineTxnOps(ctx))
}

// examineMembers compares how many members there are with how many the client knows.
func (s *Store) examineMembers(ctx context.Context, known int) driver.Finding {
	ctx, cancel := context.WithTimeout(ctx, examineTimeout)
	defer cancel()
	f := driver.Finding{About: "members"}
	r, err := s.client.MemberList(ctx)
	if err != nil {
		f.Risk, f.Advice = err.Error(), "bring the servers back: without a majority no lock is granted"
		return f
	}
	voters := 0
	for _, m := range r.Members {
		if !m.IsLearner {
			voters++
		}
	}
	f.Found = fmt.Sprintf("%d, of which the client knows %d", voters, known)
	switch {
	case voters == 1:
		f.Risk, f.Advice = "while this server is out, no lock is granted; if its disk is lost, nor are the locks known", "run three or five members"
	case voters%2 == 0:
		f.Risk, f.Advice = "an even number survives the loss of no more servers than one less, and is more often without a majority", "run three or five members"
	case known < voters:
		f.Risk, f.Advice = "the client loses all locks with the servers that it knows, although the others go on", "give the client the addresses of all members"
	}
	return f
}

// examineServer asks one server how it is.
func (s *Store) examineServer(ctx context.Context, addr string) []driver.Finding {
	ctx, cancel := context.WithTimeout(ctx, examineTimeout)
	defer cancel()
	f := driver.Finding{About: "server " + addr}
	r, err := s.client.Status(ctx, addr)
	if err != nil {
		f.Risk, f.Advice = err.Error(), "bring it back, or leave it out of the client's addresses"
		return []driver.Finding{f}
	}
	f.Found = fmt.Sprintf("%s, database of %d MB", r.Version, r.DbSize/1_000_000)
	if r.Leader == 0 {
		f.Risk, f.Advice = "it knows no leader, so it grants no lock", "look at its log and at its network to the other members"
	}
	all := []driver.Finding{f}
	for _, trouble := range r.Errors {
		all = append(all, driver.Finding{
			About: "alarm of " + addr, Found: trouble,
			Risk: "locks can only be released while there is an alarm", Advice: "compact, defragment, and then disarm the alarm (etcdctl alarm disarm)",
		})
	}
	return all
}

// examineElection looks at the shortest lease, which follows the election timeout.
func (s *Store) examineElection() driver.Finding {
	f := driver.Finding{About: "shortest lease", Found: s.least.String()}
	if s.least > slowElection {
		f.Risk, f.Advice = "the servers elect a leader slowly, and nobody gets a lock meanwhile", "set --election-timeout to 1000 or to ten times the round trip between the members"
	}
	return f
}

// examineTxnOps tries the greatest transaction, with reads.
func (s *Store) examineTxnOps(ctx context.Context) driver.Finding {
	ctx, cancel := context.WithTimeout(ctx, examineTimeout)
	defer cancel()
	f := driver.Finding{About: "max-txn-ops"}
	ops := make([]clientv3.Op, mostTxnOps)
	for i := range ops {
		ops[i] = clientv3.OpGet(s.base("keyturn:doctor") + lockPart)
	}
	_, err := s.client.Txn(ctx).Then(ops...).Commit()
	switch {
	case err == nil:
		f.Found = fmt.Sprintf("%d or more", mostTxnOps)
	case errors.Is(err, rpctypes.ErrTooManyOps):
		f.Found = fmt.Sprintf("below %d", mostTxnOps)
		f.Risk, f.Advice = "sets of locks and releases with many waiters fail", "set --max-txn-ops to 128, which is the default"
	}
	return f
}
