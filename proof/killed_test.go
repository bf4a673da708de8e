package main_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/proof/work"
	"github.com/keyturn/keyturn/store/redisstore"
)

// envPart makes this test binary play a part: the part, the address of Redis, that of the registers.
const envPart = "KEYTURN_PROOF_PART"

// partTTL is that of the leases of parts.
const partTTL = 500 * time.Millisecond

// parts are what a started process does. It says each word on a line of its own, and goes on when
// the test wants it to, if ever.
var parts = map[string]func(eng *core.Engine, registers work.Resource){
	// hold tells when it learns that its lease is lost, by the clock of all processes.
	"hold": func(eng *core.Engine, _ work.Resource) {
		lease := must(eng.Acquire(context.Background(), "k"))
		fmt.Println("holds")
		<-lease.Done()
		fmt.Println("lost", work.Monotonic(), errors.Is(lease.Err(), core.ErrLeaseLost))
	},
	"once, killed before the effect": func(eng *core.Engine, registers work.Resource) {
		once(eng, func() { hang("before") }, registers, func() {})
	},
	"once, killed after the effect": func(eng *core.Engine, registers work.Resource) {
		once(eng, func() {}, registers, func() { hang("after") })
	},
	"once, killed after the record": func(eng *core.Engine, registers work.Resource) {
		once(eng, func() {}, registers, func() {})
		hang("recorded")
	},
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func hang(word string) {
	fmt.Println(word)
	time.Sleep(time.Hour) // it is killed
}

// effect counts the effects of the id.
const effect = "effects"

func once(eng *core.Engine, before func(), registers work.Resource, after func()) (duplicate bool) {
	out, err := eng.Once(context.Background(), "id", func(context.Context) ([]byte, error) {
		before()
		value := must(registers.Get(effect, 0))
		err := registers.Set(effect, 0, value+1)
		after()
		return nil, err
	})
	_ = must(out, err)
	return out.Duplicate
}

// playPart ends the program, if it is to play a part.
func playPart() {
	part, rest, ok := strings.Cut(os.Getenv(envPart), "|")
	if !ok {
		return
	}
	addr, registers, _ := strings.Cut(rest, "|")
	parts[part](engineFor(addr), must(work.Dial(registers)))
	os.Exit(0)
}

func engineFor(addr string) *core.Engine {
	store := must(redisstore.New(redis.NewClient(&redis.Options{Addr: addr})))
	return must(core.New(store, core.WithTTL(partTTL)))
}

// player is a process that plays a part.
type player struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func play(t *testing.T, part, addr, registers string) *player {
	t.Helper()
	p := &player{t: t, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), envPart+"="+strings.Join([]string{part, addr, registers}, "|"))
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		_ = p.cmd.Wait()
	})
	return p
}

// says waits for a line that begins with word, and returns the rest.
func (p *player) says(word string) string {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatalf("the process ended before it said %q", word)
	}
	rest, ok := strings.CutPrefix(p.lines.Text(), word)
	if !ok {
		p.t.Fatalf("the process said %q, want %q", p.lines.Text(), word)
	}
	return rest
}

func (p *player) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// stage is a Redis and registers for parts.
func stage(t *testing.T) (addr, served string, registers *work.Registers) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	registers = &work.Registers{}
	var serving sync.WaitGroup
	serving.Go(func() { registers.Serve(l) })
	t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	return redistest.Start(t).Addr(), l.Addr().String(), registers
}

// TestPausedHolderLearnsOfItsLoss: a holder is stopped for three TTLs. Another process gets the key
// meanwhile, and the holder knows that it is lost as soon as it wakes.
func TestPausedHolderLearnsOfItsLoss(t *testing.T) {
	t.Parallel()
	addr, served, _ := stage(t)
	holder := play(t, "hold", addr, served)
	holder.says("holds")
	holder.signal(syscall.SIGSTOP)
	stopped := time.Now()
	eng := engineFor(addr)
	defer eng.Close(context.Background())
	lease, err := eng.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("another process has it %v after the holder stopped", time.Since(stopped))
	time.Sleep(time.Until(stopped.Add(3 * partTTL)))
	woken := work.Monotonic()
	holder.signal(syscall.SIGCONT)
	var at int64
	var lost bool
	if _, err := fmt.Sscan(holder.says("lost"), &at, &lost); err != nil || !lost {
		t.Fatalf("lost: %v, %v", lost, err)
	}
	t.Logf("the holder knew %v after it woke", time.Duration(at-woken))
	if late := time.Duration(at - woken); late > time.Second {
		t.Errorf("the holder knew %v after it woke", late)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("the other one's lease: %v", err)
	}
}

// TestOnceKilled: the message is delivered again after its worker was killed. It has an effect at
// least once, and again only if the worker died between the effect and its record.
func TestOnceKilled(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		word    string
		effects uint64
		record  bool
	}{
		"once, killed before the effect": {"before", 1, false},
		"once, killed after the effect":  {"after", 2, false},
		"once, killed after the record":  {"recorded", 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, served, registers := stage(t)
			worker := play(t, name, addr, served)
			worker.says(test.word)
			worker.signal(syscall.SIGKILL)
			eng := engineFor(addr)
			defer eng.Close(context.Background())
			for range 2 { // and once more, late
				if duplicate := once(eng, func() {}, registers, func() {}); duplicate != test.record {
					t.Errorf("on record: %v", duplicate)
				}
				test.record = true
			}
			if n := registers.Values()[effect]; n != test.effects {
				t.Errorf("%d effects, want %d", n, test.effects)
			}
		})
	}
}
