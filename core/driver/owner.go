package driver

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Owner is what the stored value of a lease tells about its holder. Every acquisition has
// an owner of its own: two goroutines of one process are strangers to each other, as two
// machines are.
type Owner struct {
	Host     string    // letters, digits and "._-"
	PID      int       // the process
	Instance int       // 1 for the first engine of that process, 2 for the second
	Start    time.Time // when that engine was made, to the second
	ID       string    // 128 random bits in hex
}

// String returns the form that is stored: host/pid/instance/start/id. It has letters,
// digits and "._-/" only. It never contains a colon, so a store may put one behind it and
// still compare owners exactly.
func (o Owner) String() string {
	return fmt.Sprintf("%s/%d/%d/%s/%s", o.Host, o.PID, o.Instance, strconv.FormatInt(o.Start.Unix(), 36), o.ID)
}

// ParseOwner reads the owners that an engine makes, as [HeldError], [Holder] and [Waiter]
// show them. Any other text, such as a foreign client's value, is an error.
func ParseOwner(s string) (Owner, error) {
	parts := strings.Split(s, "/")
	if len(parts) != 5 || parts[0] != CleanHost(parts[0]) || len(parts[4]) != 2*ownerIDBytes {
		return Owner{}, notAnOwner(s)
	}
	pid, err := strconv.Atoi(parts[1])
	if err != nil {
		return Owner{}, notAnOwner(s)
	}
	instance, err := strconv.Atoi(parts[2])
	if err != nil {
		return Owner{}, notAnOwner(s)
	}
	start, err := strconv.ParseInt(parts[3], 36, 64)
	if err != nil {
		return Owner{}, notAnOwner(s)
	}
	if _, err := hex.DecodeString(parts[4]); err != nil {
		return Owner{}, notAnOwner(s)
	}
	o := Owner{Host: parts[0], PID: pid, Instance: instance, Start: time.Unix(start, 0), ID: parts[4]}
	if o.String() != s { // "+7" is a number, too
		return Owner{}, notAnOwner(s)
	}
	return o, nil
}

func notAnOwner(s string) error {
	return fmt.Errorf("keyturn: %.200q is not an owner of keyturn's", s)
}

const ownerIDBytes = 16

// CleanHost returns host as an owner may have it: 64 bytes at most, with a dash for each
// character that is not a letter of ASCII, a digit, a dot, a dash or an underscore.
func CleanHost(host string) string {
	const most = 64
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("._-", r):
			return r
		default:
			return '-'
		}
	}, host)
	if clean == "" {
		return "unknown"
	}
	return clean[:min(len(clean), most)]
}
