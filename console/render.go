package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/keyturn/keyturn/console/internal/poll"
	"github.com/keyturn/keyturn/internal/waits"
	"github.com/keyturn/keyturn/internal/who"
)

//go:embed templates
var templateFiles embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"colour":   func(who.Process) string { return "" }, // of each console: see New
	"plain":    plain,
	"add":      func(a, b int) int { return a + b },
	"number":   number,
	"some":     some,
	"keyURL":   keyURL,
	"ruleText": ruleText,
}).ParseFS(templateFiles, "templates/*.html"))

// page is a kind of page.
type page struct {
	Name, Title string
	// build makes what changes while somebody looks: lists of parts.
	build func(look) []list
	// fixed makes what stays as it was when the page was loaded, for the page's template; nil: nothing.
	fixed func(*http.Request, look) any
}

// look is what a page is built from.
type look struct {
	query  url.Values
	clock  clock
	status poll.Status
	graph  *waits.Graph
	// known are the rows of the last look at the same, and fresh those of this one; nil: they are not kept.
	known, fresh map[string]knownRow
	// operator is the name of the operator who looks; "": none does.
	operator string
	// rejected: the page answers a form that was rejected.
	rejected bool
}

// list is a part of a page with parts of its own that come and go.
type list struct {
	ID    string
	Parts []part
}

// part is an element of a page. Its HTML has the id as an attribute.
type part struct {
	ID   string
	HTML template.HTML
	// Band replaces the element with the id "band-" + ID inside of it. It changes more often than the rest.
	Band template.HTML
}

// whole is the part's HTML with its band.
func (p part) whole() template.HTML {
	if p.Band == "" {
		return p.HTML
	}
	return template.HTML(strings.Replace(string(p.HTML), string(emptyBand(p.ID)), string(p.Band), 1))
}

func emptyBand(id string) template.HTML {
	return template.HTML(`<svg id="band-` + id + `"></svg>`) // an id of ours: see elementID
}

// elementID makes an id for an element from a key or an owner, which may be any text.
func elementID(kind, text string) string {
	sum := sha256.Sum256([]byte(text))
	return kind + "-" + hex.EncodeToString(sum[:8])
}

// write executes a template.
func (c *Console) write(name string, data any) template.HTML {
	var b bytes.Buffer
	if err := c.templates.ExecuteTemplate(&b, name, data); err != nil {
		panic("console: " + err.Error()) // the templates are part of the program, and tested
	}
	return template.HTML(b.String()) // html/template has escaped it
}

// views renders each view once for all who look at the same.
type views struct {
	mu     sync.Mutex
	cached map[string]*cachedView
	graph  *waits.Graph
	tick   uint64 // of graph
}

type cachedView struct {
	tick  uint64
	lists []list
	rows  map[string]knownRow
}

// mostCached bounds the views that are kept. Filters are free text, so there may be any number.
const mostCached = 64

// view returns what is to be seen now. live is for a page that is open already.
func (c *Console) view(p *page, query url.Values, live bool) (look, []list) {
	c.views.mu.Lock()
	defer c.views.mu.Unlock()
	l := look{query: query, clock: clock{now: time.Now(), live: live}, status: c.poll.Status()}
	if c.views.graph == nil || c.views.tick != l.status.Tick {
		g := waits.Build(waits.Pairs(c.poll.Contended()))
		c.views.graph, c.views.tick = &g, l.status.Tick
	}
	l.graph = c.views.graph
	if !live {
		return l, c.lists(p, l)
	}
	id := p.Name + "?" + query.Encode()
	v := c.views.cached[id]
	if v == nil {
		if len(c.views.cached) >= mostCached {
			clear(c.views.cached)
		}
		v = new(cachedView)
		c.views.cached[id] = v
	}
	if v.lists == nil || v.tick != l.status.Tick {
		l.known, l.fresh = v.rows, make(map[string]knownRow)
		v.tick, v.lists, v.rows = l.status.Tick, c.lists(p, l), l.fresh
	}
	return l, v.lists
}

func (c *Console) lists(p *page, l look) []list {
	return append([]list{c.head(l)}, p.build(l)...)
}

// frame is what the template of a page gets.
type frame struct {
	Title, Page, Heading string
	Style, Script, Icon  string
	Nav                  []*page
	Lists                map[string][]template.HTML
	Events               string
	Now, Origin          int64
	Operator             string
	Notice               *notice
	Reload               bool // without script
	Fixed                any
}

// notice says what has become of a form.
type notice struct {
	Bad  bool
	Text string
}

func (c *Console) servePage(w http.ResponseWriter, r *http.Request, p *page, status int, n *notice) {
	query := r.URL.Query()
	if r.Method == http.MethodPost {
		query = url.Values{"k": {r.PostForm.Get("key")}}
	}
	c.source.open(query)
	_ = c.fresh(r.Context(), query.Get("k")) // the page says it
	l, lists := c.view(p, query, false)
	l.operator, l.rejected = c.operator(r), n != nil && n.Bad
	f := frame{
		Title: c.cfg.title, Page: p.Name, Heading: p.Title, Style: styleSheet.name, Script: script.name, Icon: icon.name,
		Nav: c.pages(), Lists: make(map[string][]template.HTML), Now: l.clock.now.UnixMilli(), Origin: l.status.Started.UnixMilli(), Notice: n,
		Operator: l.operator,
	}
	live := url.Values{"page": {p.Name}}
	for name, values := range query {
		if name != "page" {
			live[name] = values
		}
	}
	f.Events = "events?" + live.Encode()
	// What is typed into a form must stay, and what has become of one.
	f.Reload = n == nil && (p.Name != "key" || query.Get("k") != "" && f.Operator == "")
	for _, one := range lists {
		for _, p := range one.Parts {
			f.Lists[one.ID] = append(f.Lists[one.ID], p.whole())
		}
	}
	if p.fixed != nil {
		f.Fixed = p.fixed(r, l)
	}
	var b bytes.Buffer
	if err := c.templates.ExecuteTemplate(&b, "page-"+p.Name, f); err != nil {
		panic("console: " + err.Error()) // as in write
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// keyURL is the address of a key's page.
func keyURL(key string) string { return "key?" + url.Values{"k": {key}}.Encode() }

// colour is the class of a process's colour. Foreign clients are grey.
func (c *Console) colour(p who.Process) string {
	if p.Foreign {
		return "foreign"
	}
	return "p" + strconv.Itoa(c.colours.Of(p))
}

// plain quotes text with characters that cannot be seen. Such a key could look like another one: a change of
// direction makes 24 of 42.
func plain(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) < 0 {
		return text
	}
	return strconv.Quote(text)
}

// number writes a number with thin spaces between the thousands.
func number(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

// some writes "1 key", "7 keys" or "7 processes".
func some(n int, what string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(what, "s"):
		what += "es"
	default:
		what += "s"
	}
	return number(n) + " " + what
}
