package etcdstore

import "strings"

// The keys of a lock begin with its base. A driver's key has no braces, so no key of one lock can be
// taken for one of another lock.
//
//	keyturn/{user:42}/forced/<owner>  why the owner's lease was taken by force
//	keyturn/{user:42}/lock            what decisions depend on: see lockValue
//	keyturn/{user:42}/member/<owner>  an owner that holds the lock or waits for it
//	keyturn/{user:42}/record          what Once remembers
//	keyturn/{user:42}/version         what AdvanceVersion remembers
//	keyturn/inbox/<process>/<owner>   a message to a process: somebody wants the owner's lock
const (
	forcedPart  = "forced/"
	lockPart    = "lock"
	memberPart  = "member/"
	membersEnd  = "member0" // the first key after all members: '0' follows '/'
	recordPart  = "record"
	versionPart = "version"
)

// base is what all keys of a lock begin with.
func (s *Store) base(key string) string { return s.cfg.prefix + "{" + key + "}/" }

// lockOf returns the lock that an etcd key belongs to, and which part of it the key is.
func (s *Store) lockOf(name string) (key, part string, ok bool) {
	rest, ok := strings.CutPrefix(name, s.cfg.prefix+"{")
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "}/")
}
