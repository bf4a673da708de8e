package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"strings"
)

//go:embed assets
var files embed.FS

// asset is a file that never changes under its name, because the name has its hash.
type asset struct {
	name, kind string
	content    []byte
}

var (
	styleSheet = load("style.css", "text/css; charset=utf-8")
	script     = load("script.js", "text/javascript; charset=utf-8")
	icon       = load("icon.svg", "image/svg+xml")
	assets     = []asset{styleSheet, script, icon}
)

func load(name, kind string) asset {
	content, err := files.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it is part of the program
	}
	sum := sha256.Sum256(content)
	ext := path.Ext(name)
	return asset{fmt.Sprintf("%s-%s%s", strings.TrimSuffix(name, ext), hex.EncodeToString(sum[:6]), ext), kind, content}
}

func (a asset) serve(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(a.content) // a viewer that has gone needs no answer
}
