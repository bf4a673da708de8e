package chart

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// theme is for a page that is light or dark.
type theme struct {
	suffix     string // of the file's name
	background color.Color
	ink        color.Color // of text and axes
}

var themes = []theme{
	{"", color.White, color.Black},
	{"-dark", color.RGBA{0x0d, 0x11, 0x17, 0xff}, color.RGBA{0xc9, 0xd1, 0xd9, 0xff}},
}

// newPlot is an empty panel.
func (t theme) newPlot(title string) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	p.BackgroundColor = t.background
	sans := func(f *font.Font, size vg.Length) { f.Variant, f.Size = "Sans", size }
	sans(&p.Title.TextStyle.Font, 10)
	sans(&p.Legend.TextStyle.Font, 8)
	p.Title.TextStyle.Color, p.Legend.TextStyle.Color = t.ink, t.ink
	p.Title.Padding = vg.Millimeter * 2
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		sans(&axis.Tick.Label.Font, 8)
		axis.Color, axis.Tick.Color, axis.Tick.Label.Color = t.ink, t.ink, t.ink
	}
	return p
}
