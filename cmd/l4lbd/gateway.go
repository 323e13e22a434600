package main

import (
	"github.com/spf13/cobra"

	"l4lb/pkg/admin"
)

// gateway says which running gateway a command asks.
type gateway struct{ config, admin string }

// register adds the flags that name the gateway.
func (g *gateway) register(c *cobra.Command) {
	configFlag(c, &g.config, false)
	g.registerAdmin(c)
}

func (g *gateway) registerAdmin(c *cobra.Command) {
	c.Flags().StringVar(&g.admin, "admin", "",
		"`ADDRESS` of the running gateway: unix:PATH or HOST:PORT; default is adminListen of --config, or "+admin.DefaultAddress)
}

// client is for the gateway that the flags name.
func (g *gateway) client() (*admin.Client, error) {
	address := g.admin
	if address == "" && g.config != "" {
		doc, err := loadConfig(g.config)
		if err != nil {
			return nil, err
		}
		address = doc.Config.Gateway.AdminListen
	}
	if address == "" {
		address = admin.DefaultAddress
	}
	return admin.NewClient(address), nil
}
